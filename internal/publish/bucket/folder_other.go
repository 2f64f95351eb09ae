//go:build !unix

package bucket

import "io"

type noLock struct{}

func (noLock) Close() error { return nil }

// lockFolder does nothing, because this system has no locks on folders.
func lockFolder(string) (io.Closer, error) { return noLock{}, nil }

func isFolder(error) bool { return false }
