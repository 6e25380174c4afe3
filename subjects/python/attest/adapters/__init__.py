"""Shipped adapters. adapters/PREFIX.py serves the subjects PREFIX:NAME through its table

    SUBJECTS: dict[str, callable]     NAME -> a subject: an object with
                                      .name, .version (str), .describe() -> dict, .attention(call: protocol.Call)
                                      and, if a script can make the call without attest, .script(call) -> str: Python
                                      that has the call's arrays in scope by name and leaves its answer in `got`

A subject raises attest.Unsupported for what its library does not offer, and a table of quotes (_quotes.py) in the same file has the
document and the sentence on which that rests (tests/python/test_refusals.py); attest.Refused with the library's own words
where that refuses what it should take, and any other exception for a failure.
"""
