"""`evertick top`, the terminal page: `snapshot` reads, `page` keeps what the user chose, `frame` draws, `app` runs."""
