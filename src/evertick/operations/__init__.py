"""What people and programs can do with a ledger, whichever interface they use.

`protocol.Operations` is the contract, `results` its answers, `local.LocalOperations` its implementation on a store.
Nothing is imported here: the command line loads only what a command needs.
"""
