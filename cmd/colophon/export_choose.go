package main

import (
	"errors"
	"slices"

	"github.com/spf13/pflag"

	"colophon/client"
	"colophon/internal/cli"
)

// choice reads which records are meant: their numbers, or filters of the server's lists.
func (e *exportCommand) choice(flags *pflag.FlagSet, args []string) ([]uint64, map[string]string, error) {
	switch {
	case e.file == "":
		return nil, nil, errors.New("name the file to write with --pack")
	case e.maxRecords < 1:
		return nil, nil, errors.New("--max-records must be at least 1")
	}
	return e.chosen.read(flags, args)
}

// choose is the numbers of the records that are meant, in ascending order.
func (x *exporter) choose(seqs []uint64, filter map[string]string) (_ []uint64, err error) {
	if filter != nil {
		if seqs, err = x.list(filter); err != nil {
			return nil, err
		}
	}
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	switch {
	case len(seqs) == 0:
		return nil, cli.Exitf(cli.ExitFailed, "no record fits")
	case len(seqs) > x.maxRecords:
		return nil, x.tooMany()
	}
	return seqs, nil
}

func (x *exporter) tooMany() error {
	return cli.Exitf(cli.ExitFailed, "more than %d records are meant: choose fewer, or raise --max-records", x.maxRecords)
}

// list asks for the records that pass a filter, until there are too many.
func (x *exporter) list(filter map[string]string) (seqs []uint64, err error) {
	for row, err := range x.records.List(&client.RecordFilter{Where: filter}).All(x.ctx) {
		if err != nil {
			return nil, x.server.Exit(err)
		}
		if seqs = append(seqs, row.Seq); len(seqs) > x.maxRecords {
			return nil, x.tooMany()
		}
	}
	return seqs, nil
}
