"""The only SQL: tables, and a function per statement. Time is the database's."""
