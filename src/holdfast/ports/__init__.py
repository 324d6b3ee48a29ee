"""What the services need from the world, in the words of the domain.

`homes` and `stores` implement these; services and the command line depend on nothing else.
"""
