package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"syscall"
)

// runChild runs this program as the named contestant in the folder dir, waits until it exits, and
// returns its output.
func runChild(ctx context.Context, self, name, dir string, settings ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, self, append([]string{"contestant", name, "--dir", dir}, settings...)...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = endTime
	var log bytes.Buffer
	command.Stderr = &log
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("contestant %s: %w: %s", name, err, log.String())
	}
	return out, nil
}

// measureChild runs a contestant with runChild, and decodes its JSON output into m.
func measureChild[M any](ctx context.Context, m *M, self, name, dir string, settings ...string) error {
	out, err := runChild(ctx, self, name, dir, settings...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, m); err != nil {
		return fmt.Errorf("decoding the measurement of %s: %w", name, err)
	}
	return nil
}
