"""The functions of torch.linalg."""

from lazytensor.functional import linalg as _linalg
from lazytensor.functional import linear_systems as _systems
from lazytensor.functional.argument_errors import guard_arguments
from lazytensor.functional.csx_refusals import with_refusals
from lazytensor.functional.out_arguments import accept_torch_names, public

cholesky = public(_linalg.cholesky)
cholesky_ex = public(_systems.cholesky_ex)
cond = public(_systems.cond)
cross = public(_linalg.cross)
det = public(_linalg.det)
diagonal = public(_linalg.diagonal)
eig = public(_systems.eig)
eigvals = public(_systems.eigvals)
eigh = public(_linalg.eigh)
eigvalsh = public(_linalg.eigvalsh)
householder_product = public(_linalg.householder_product)
inv = public(_linalg.inv)
inv_ex = public(_systems.inv_ex)
lstsq = public(_systems.lstsq)
matrix_exp = public(_linalg.matrix_exp)
lu = public(_linalg.lu)
lu_factor = public(_linalg.lu_factor)
lu_factor_ex = public(_systems.lu_factor_ex)
lu_solve = public(_systems.lu_solve)
matmul = public(_linalg.matmul)
matrix_norm = public(_linalg.matrix_norm)
matrix_power = public(_linalg.matrix_power)
matrix_rank = public(_linalg.matrix_rank)
multi_dot = public(_linalg.multi_dot)
# Automatic casts do not convert the operand, unlike that of torch.norm.
norm = accept_torch_names(with_refusals("norm", guard_arguments(_linalg.norm)))
pinv = public(_linalg.pinv)
qr = public(_linalg.qr)
slogdet = public(_linalg.slogdet)
solve = public(_linalg.solve)
solve_ex = public(_systems.solve_ex)
solve_triangular = public(_linalg.solve_triangular)
svd = public(_linalg.svd)
svdvals = public(_linalg.svdvals)
tensorinv = public(_systems.tensorinv)
tensorsolve = public(_systems.tensorsolve)
vander = public(_systems.vander)
vecdot = public(_linalg.vecdot)
vector_norm = public(_linalg.vector_norm)

_HELPERS = ("accept_torch_names", "guard_arguments", "public", "with_refusals")
__all__ = [name for name in dir() if not name.startswith("_") and name not in _HELPERS]
