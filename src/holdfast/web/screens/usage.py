"""x"""

from holdfast.web.site import Screen

SCREEN = Screen(routes=())
