-- Schema 5: a list of the words of the search index, so that part of a word is searched in one
-- string instead of the whole index. A cache of one row; see word_list.py.
CREATE TABLE word_list (
    number INTEGER PRIMARY KEY CHECK (number = 1),
    words  BLOB NOT NULL
);

-- A list of a different age than this is out of date.
INSERT INTO facts (name, value) VALUES ('words_age', 0);

-- Sessions that come back bring messages with old numbers, whose words a list may lack. A trigger
-- applies to every process, even one that opened the store before there was a list. A new session
-- has no messages yet, so an append costs nothing extra.
CREATE TRIGGER words_come_back AFTER INSERT ON sessions
WHEN NEW.message_count > 0 OR NEW.bytes > 0
BEGIN
    UPDATE facts SET value = value + 1 WHERE name = 'words_age';
END;
