"""`holdfast web`: a page over the API, for one person, on their own machine.

| module | holds |
|---|---|
| `server` | the socket, the application with its routes, errors as pages |
| `gate` | who may ask, and what every answer says to the browser |
| `threads` | the threads in which a page asks the homes, and when it asks again |
| `jobs` | runs that outlive the request which started them |
| `site` | what a screen needs: homes to ask, templates, forms |
| `screens` | one module for each screen |

A screen asks the API and shows the answer, like a command. It decides nothing by itself.
"""
