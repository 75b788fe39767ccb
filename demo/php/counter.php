<?php
// Adds 1 to a number in shared memory, again and again: counter.php TIMES locked|unlocked PROCESSES
// All begin when that many are there.
[, $times, $mode, $processes] = $argv;
$key = $mode == 'locked' ? 0x64656d6f : 0x64656d70;
$semaphore = sem_get($key);
$memory = shmop_open($key, 'c', 0600, 16);

function add_one($memory, $place)
{
    shmop_write($memory, pack('P', unpack('P', shmop_read($memory, $place, 8))[1] + 1), $place);
}

sem_acquire($semaphore);
add_one($memory, 8);
sem_release($semaphore);
while (unpack('P', shmop_read($memory, 8, 8))[1] < $processes) usleep(100);

for ($i = 0; $i < $times; $i++) {
    if ($mode == 'locked') sem_acquire($semaphore);
    add_one($memory, 0);
    if ($mode == 'locked') sem_release($semaphore);
}
echo unpack('P', shmop_read($memory, 0, 8))[1], "\n";
