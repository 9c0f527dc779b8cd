"""Every answer of `Operations`, declared once: the API's schema, the page's types and the client derive from these.

Times are aware UTC datetimes. Import from the module of the subject where start-up time matters: each class costs
about half a millisecond to create.
"""
