package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/pflag"

	"colophon/internal/cli"
)

// choice reads which records are meant: their numbers, or parameters of the server's
// lists, nil where they are named one by one.
func (e *exportCommand) choice(flags *pflag.FlagSet, args []string) ([]uint64, url.Values, error) {
	switch {
	case e.file == "":
		return nil, nil, errors.New("name the file to write with --pack")
	case e.maxRecords < 1:
		return nil, nil, errors.New("--max-records must be at least 1")
	}
	seqs, filters, err := e.records.read(flags, args)
	if err != nil || filters == nil {
		return seqs, nil, err
	}
	parameters := url.Values{}
	for name, value := range filters {
		parameters.Set(name, value)
	}
	return nil, parameters, nil
}

// choose is the numbers of the records that are meant, in ascending order.
func (x *exporter) choose(seqs []uint64, filter url.Values) ([]uint64, error) {
	if filter != nil {
		var err error
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
func (x *exporter) list(filter url.Values) (seqs []uint64, err error) {
	for {
		text, err := x.client.call(x.ctx, http.MethodGet, x.path+"/records?"+filter.Encode(), nil)
		if err != nil {
			return nil, err
		}
		var p page[struct {
			Seq uint64 `json:"seq"`
		}]
		if err := json.Unmarshal(text, &p); err != nil {
			return nil, fmt.Errorf("reading the server's answer: %w", err)
		}
		for _, row := range p.Rows {
			seqs = append(seqs, row.Seq)
		}
		switch {
		case len(seqs) > x.maxRecords:
			return nil, x.tooMany()
		case p.Next == "":
			return seqs, nil
		}
		filter.Set("cursor", p.Next)
	}
}
