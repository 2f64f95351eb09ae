package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"colophon/internal/cli"
	"colophon/internal/server"
)

// compareSettings looks at the settings of the server that runs on the folder, where
// they can be seen. Without flags of this command they are the ones that are judged;
// with some, what differs is noted.
func (d *doctor) compareSettings(given bool) {
	p := d.machine.process
	if p == nil || len(p.arguments) < 2 || p.arguments[1] != "serve" {
		return
	}
	theirs, err := p.settings()
	if err != nil {
		d.settings.others = []string{err.Error()}
		return
	}
	theirs.config.Data = d.data() // the same folder, whatever it is called
	if !given {
		theirs.strangers, theirs.ofServer = d.settings.strangers, true
		d.settings = theirs
		return
	}
	ours := flagsOf(d.settings.config)
	flagsOf(theirs.config).VisitAll(func(f *pflag.Flag) {
		if ours.Lookup(f.Name).Value.String() != f.Value.String() {
			d.settings.others = append(d.settings.others, "--"+f.Name+" "+cli.Plain(f.Value.String()))
		}
	})
}

// settings are those that a server has begun with, as far as its file is unchanged.
func (p *serverProcessInfo) settings() (settings, error) {
	environment := make(map[string]string)
	for _, pair := range p.variables {
		name, value, _ := strings.Cut(pair, "=")
		environment[name] = value
	}
	flags := flagsOf(server.Config{}.WithDefaults())
	var s settings
	flags.StringVar(&s.file, "config", environment["COLOPHON_CONFIG"], "")
	if err := flags.Parse(p.arguments[2:]); err != nil {
		return s, err
	}
	p.locate(&s.file)
	var err error
	s.config, err = server.Resolve(s.file, func(name string) (string, bool) { value, set := environment[name]; return value, set }, flags)
	for _, path := range []*string{&s.config.AccessFile, &s.config.TLSCert, &s.config.TLSKey, &s.config.TLSClientCA} {
		p.locate(path)
	}
	return s, err
}

// locate makes a path of the process one of this command.
func (p *serverProcessInfo) locate(path *string) {
	if *path != "" && !filepath.IsAbs(*path) {
		*path = filepath.Join(p.dir, *path)
	}
}

// flagsOf are flags with the values of some settings.
func flagsOf(config server.Config) *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.Bind(flags)
	return flags
}
