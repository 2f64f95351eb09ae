package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"colophon/storage/pebble/pebbletest"
)

// scriptSecret copies a file and replaces each occurrence of SECRET in it with a random text. It
// sets the variable SECRET to that text, which stays the same throughout the script. Usage: secret
// FROM TO.
func scriptSecret(ts *testscript.TestScript, _ bool, args []string) {
	if ts.Getenv("SECRET") == "" {
		random := make([]byte, 32)
		_, err := rand.Read(random)
		ts.Check(err)
		ts.Setenv("SECRET", hex.EncodeToString(random))
	}
	writeFile(ts, args[1], []byte(strings.ReplaceAll(ts.ReadFile(args[0]), "SECRET", ts.Getenv("SECRET"))))
}

// scriptSearch searches every file in a folder for the value of SECRET, including compressed and
// overwritten data. It fails if the value is not found or, with !, if it is found.
// Usage: [!] search FOLDER.
func scriptSearch(ts *testscript.TestScript, neg bool, args []string) {
	var found []string
	for begin := time.Now(); ; {
		var err error
		if found, err = search(ts.MkAbs(args[0]), []byte(ts.Getenv("SECRET"))); err == nil {
			break
		}
		if time.Since(begin) > time.Minute { // retry for a minute, because a running server can change or remove files
			ts.Check(err)
		}
	}
	switch {
	case neg && len(found) > 0:
		ts.Fatalf("the files %s contain the secret", found)
	case !neg && len(found) == 0:
		ts.Fatalf("no file in %s contains the secret", args[0])
	}
}

// indexOrder is the name of the comparer that orders the keys of the index.
const indexOrder = "colophon.index.1"

func search(folder string, secret []byte) (found []string, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		names, err := pebbletest.FilesContaining(context.Background(), nil, path, secret, indexOrder)
		for _, name := range names {
			found = append(found, filepath.Join(path, name))
		}
		return err
	})
	return found, err
}

var noErasures = regexp.MustCompile(`(?m)^colophon_erasures_pending 0$`)

// scriptWaitErased waits for up to a minute until the server has removed erased content from the
// disk. Usage: wait-erased.
func scriptWaitErased(ts *testscript.TestScript, _ bool, _ []string) {
	begin := time.Now()
	for {
		_, answer := request(ts, http.MethodGet, "/metrics", http.Header{}, nil)
		if noErasures.Match(answer) {
			return
		}
		if time.Since(begin) > time.Minute {
			ts.Fatalf("erasures are still pending after a minute")
		}
		time.Sleep(10 * time.Millisecond)
	}
}
