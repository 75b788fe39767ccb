! Fortran's allocate: `in_pool` is C's.
program allocate_test
  use iso_c_binding
  implicit none
  interface
    integer(c_int) function is_in_pool(at) bind(c)
      import
      type(c_ptr), value :: at
    end function
  end interface
  real(8), allocatable, target :: a(:, :), b(:)
  allocate(a(300, 300), b(10))
  a = 2
  a = matmul(a, a)
  if (is_in_pool(c_loc(a)) == 0 .or. is_in_pool(c_loc(b)) /= 0 .or. a(1, 1) /= 1200) stop 1
  deallocate(a)
end program
