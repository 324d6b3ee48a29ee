# The public names: the only list of them. `__init__.py` reads these lines to import a name when it
# is first used.
from holdfast import errors as errors
from holdfast.api.background import maintain_in_background as maintain_in_background
from holdfast.api.home import Home as Home
from holdfast.api.home import open as open  # noqa: A004 - as people will type it: holdfast.open
from holdfast.api.machine import Machine as Machine
from holdfast.api.machine import machine as machine
from holdfast.api.plan import HomePlan as HomePlan
from holdfast.api.plan import HomeReport as HomeReport
from holdfast.api.sessions import AgentSessions as AgentSessions
from holdfast.errors import BudgetExceededError as BudgetExceededError
from holdfast.errors import HoldfastError as HoldfastError
from holdfast.guard.async_guard import AsyncGuard as AsyncGuard
from holdfast.guard.guard import Guard as Guard
from holdfast.homes.maintenance import maintain as maintain
from holdfast.model.checkpoint import TakeOutcome as TakeOutcome
from holdfast.model.guard import Alert as Alert
from holdfast.model.guard import Level as Level
from holdfast.model.session import Message as Message
from holdfast.model.session import Relation as Relation
from holdfast.model.session import Session as Session
from holdfast.model.session import SessionFilter as SessionFilter
from holdfast.model.session import Tokens as Tokens
from holdfast.policy.budgets import Budgets as Budgets
from holdfast.services.async_sessions import AsyncSessions as AsyncSessions
from holdfast.services.turn_checkpoints import Recorder as Recorder

__all__: list[str]  # noqa: PYI035 - the imports above are the list
__version__: str
