! An unchanged program in Fortran: a semaphore of System V as a counter, through the C library's own
! calls. `vshmem run counter 5` adds 5 to it, on a pool or on the kernel, whichever serves the calls.
program counter
  use, intrinsic :: iso_c_binding
  implicit none

  integer(c_int), parameter :: key = int(z'f0f0'), create = int(o'1600'), get_value = 12
  type, bind(c) :: operation
     integer(c_short) :: number, change, flags
  end type operation

  interface
     integer(c_int) function semget(key, count, flags) bind(c)
       import :: c_int
       integer(c_int), value :: key, count, flags
     end function semget
     integer(c_int) function semop(id, operations, count) bind(c)
       import :: c_int, c_size_t, operation
       integer(c_int), value :: id
       type(operation), intent(in) :: operations(*)
       integer(c_size_t), value :: count
     end function semop
     integer(c_int) function semctl(id, number, command) bind(c)
       import :: c_int
       integer(c_int), value :: id, number, command
     end function semctl
  end interface

  integer(c_int) :: id
  integer :: change
  character(len=16) :: word

  call get_command_argument(1, word)
  read (word, *) change
  id = semget(key, 1_c_int, create)
  if (id < 0) error stop 'semget failed'
  if (semop(id, [operation(0_c_short, int(change, c_short), 0_c_short)], 1_c_size_t) /= 0) error stop 'semop failed'
  print '(a,i0)', 'the counter is ', semctl(id, 0_c_int, get_value)
end program counter
