"""The interfaces that the services need, in terms of the domain.

`homes` and `stores` implement these; services and the command line depend on nothing else.
"""
