package ha_test

import "golang.org/x/sys/unix"

// waitUntilEnded waits until a child process has exited, without reaping it.
func waitUntilEnded(pid int) (int, error) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return pid, err
		}
	}
}
