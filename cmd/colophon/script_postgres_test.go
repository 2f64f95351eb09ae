package main

import (
	"github.com/rogpeppe/go-internal/testscript"

	"colophon/storage/postgres/postgrestest"
)

// postgresKey is the key under which a script's environment holds its PostgreSQL server.
type postgresKey struct{}

func closePostgres(env *testscript.Env) {
	if server := *env.Values[postgresKey{}].(**postgrestest.Server); server != nil {
		_ = server.Close()
	}
}

// scriptPostgres controls a PostgreSQL server. The command start also sets COLOPHON_STORE to the
// server's URL, and run restarts a killed server:
//
//	postgres start
//	postgres kill
//	postgres run
func scriptPostgres(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: postgres start|kill|run")
	}
	server := ts.Value(postgresKey{}).(**postgrestest.Server)
	switch args[0] {
	case "start":
		started, err := postgrestest.New()
		ts.Check(err)
		*server = started
		ts.Setenv("COLOPHON_STORE", started.URL())
	case "kill":
		ts.Check((*server).Kill())
	case "run":
		ts.Check((*server).Start())
	default:
		ts.Fatalf("usage: postgres start|kill|run")
	}
}
