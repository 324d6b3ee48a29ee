"""`holdfast web`: a page over the API, for one person, on their own machine.

| module | holds |
|---|---|
| `server` | the socket, the application with its routes, errors as pages |
| `gate` | access control, and the security headers of every response |
| `child_process` | child processes that open the homes for the server |
| `query_threads` | the threads in which the page queries the homes |
| `refresh`, `lists` | the list of sessions and the search indexes, and when they are renewed |
| `jobs` | runs that outlive the request which started them |
| `site` | what a screen needs: homes to query, templates, forms |
| `screens` | one module for each screen |

A screen calls the API and shows the result, like a command. It decides nothing by itself.
"""
