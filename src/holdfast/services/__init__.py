"""One use case a file. Services know ports and values; never files, SQL, git or terminals."""
