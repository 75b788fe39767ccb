/* Open MPI's header of operations includes one of this name, which distributions do not install
 * with it. It is wanted for users' operations in Fortran whose integers differ from C's; the
 * component leaves users' operations alone. */
#ifndef FINT_2_INT_H
#define FINT_2_INT_H

#define OMPI_INT_2_FINT(a) ((MPI_Fint)(a))
#define OMPI_FINT_2_INT(a) ((int)(a))

#endif
