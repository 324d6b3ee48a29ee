"""`holdfast web`: a page over the API, for one person, on their own machine.

| module | holds |
|---|---|
| `server` | the socket, the process, its end |
| `app` | the application: routes, errors as pages |
| `gate` | who may ask, and what every answer says to the browser |
| `site` | what a screen needs: threads to read in, templates, forms |
| `screens` | one module for each screen |

A screen asks the API and shows the answer, like a command. It decides nothing by itself.
"""
