package main

import (
	"colophon/internal/cli"
)

// hash is a hash as a cell: without --full by its first digits, enough to tell it
// from others by eye.
func (d *driftCommand) hash(hash string) string {
	const digits = 12
	if d.full || len(hash) <= digits {
		return cli.Plain(hash)
	}
	return cli.Plain(hash[:digits]) + "…"
}

func (d *driftCommand) hashOr(hash *string) string {
	if hash == nil {
		return cli.None
	}
	return d.hash(*hash)
}
