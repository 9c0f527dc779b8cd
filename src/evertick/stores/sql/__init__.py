"""A ledger in a database: `sqlite.SqliteStore`, `postgres.PostgresStore` and `mysql.MysqlStore`.

Public beside them: `admin`, which looks after a database as such (`evertick db`). Nothing is imported here,
because each driver is loaded only for the ledger that needs it.
"""
