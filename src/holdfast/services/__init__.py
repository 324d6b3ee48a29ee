"""One use case per file. Services know ports and values; never files, SQL, git or terminals."""
