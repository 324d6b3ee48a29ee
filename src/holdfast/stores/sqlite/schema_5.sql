-- Schema 5: a list of the words of the search index, so that a part of a word is looked for in one
-- text and not in the whole index. A cache of one row; see word_list.py.
CREATE TABLE word_list (
    number INTEGER PRIMARY KEY CHECK (number = 1),
    words  BLOB NOT NULL
);

-- A list of another age than this is out of date.
INSERT INTO facts (name, value) VALUES ('words_age', 0);

-- Sessions that come back bring messages with old numbers, whose words a list may lack. Every process
-- obeys a trigger, even one that opened the store before there was a list. A new session has no
-- messages yet, so that this costs an append nothing.
CREATE TRIGGER words_come_back AFTER INSERT ON sessions
WHEN NEW.message_count > 0 OR NEW.bytes > 0
BEGIN
    UPDATE facts SET value = value + 1 WHERE name = 'words_age';
END;
