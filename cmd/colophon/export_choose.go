package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// filter reads which records are meant: parameters of the server's lists, nil where the
// records are named one by one.
func (e *exportCommand) filter(flags *pflag.FlagSet, args []string) (url.Values, error) {
	filter := url.Values{}
	for _, f := range chosenBy {
		if flags.Changed(f.flag) {
			filter.Set(strings.ReplaceAll(f.flag, "-", "_"), flags.Lookup(f.flag).Value.String())
		}
	}
	for prefix, pairs := range map[string][]string{"label:": e.labels, "": e.where} {
		for _, pair := range pairs {
			name, value, found := strings.Cut(pair, "=")
			if filter.Has(prefix+name) || !found {
				return nil, fmt.Errorf("%q is not NAME=VALUE with a name of its own", pair)
			}
			filter.Set(prefix+name, value)
		}
	}
	switch {
	case e.file == "":
		return nil, errors.New("name the file to write with --pack")
	case e.maxRecords < 1:
		return nil, errors.New("--max-records must be at least 1")
	case len(filter) > 0 && len(args) > 0:
		return nil, errors.New("name records by number or by filters, not both")
	case len(filter) == 0 && len(args) == 0:
		return nil, errors.New("name the records, by number or by a filter like --run-id")
	case len(args) > 0:
		return nil, nil
	}
	return filter, nil
}

// choose is the numbers of the records that are meant, in ascending order.
func (x *exporter) choose(args []string, filter url.Values) ([]uint64, error) {
	var seqs []uint64
	for _, arg := range args {
		seq, err := strconv.ParseUint(arg, 10, 64)
		if err != nil {
			return nil, exitf(exitUsage, "%q is not the number of an event", arg)
		}
		seqs = append(seqs, seq)
	}
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
		return nil, exitf(exitFailed, "no record fits")
	case len(seqs) > x.maxRecords:
		return nil, x.tooMany()
	}
	return seqs, nil
}

func (x *exporter) tooMany() error {
	return exitf(exitFailed, "more than %d records are meant: choose fewer, or raise --max-records", x.maxRecords)
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
