package contestant

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/api/layout"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
)

// tesseraLog is a Tessera log that is stored in files.
type tesseraLog struct {
	config   Config
	appender *tessera.Appender
	reader   tessera.LogReader
	close    func(context.Context) error // waits until all entries have been published
}

// openTessera opens a log with its fastest options: no antispam, no garbage collection, and one
// checkpoint per second. According to the driver's contract, an entry has been sequenced,
// integrated, and synced once Add's future resolves. The contestant does not wait for a checkpoint
// that covers the entry.
func openTessera(ctx context.Context, config Config) (*tesseraLog, error) {
	// The background work of the log stops only when the process exits.
	ctx = context.WithoutCancel(ctx)
	driver, err := posix.New(ctx, posix.Config{Path: config.Dir})
	if err != nil {
		return nil, fmt.Errorf("creating the POSIX driver: %w", err)
	}
	private, _, err := note.GenerateKey(rand.Reader, "bench.invalid/tessera")
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		return nil, fmt.Errorf("creating a signer: %w", err)
	}
	t := &tesseraLog{config: config}
	t.appender, t.close, t.reader, err = tessera.NewAppender(ctx, driver, tessera.NewAppendOptions().
		WithCheckpointSigner(signer).
		WithCheckpointInterval(time.Second).
		WithBatching(config.Batch, config.Age).
		WithGarbageCollectionInterval(0))
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	return t, nil
}

// add adds an entry and returns its index as a decimal number.
func (t *tesseraLog) add(ctx context.Context, body []byte) ([]byte, error) {
	index, err := t.appender.Add(ctx, tessera.NewEntry(body))()
	if err != nil {
		return nil, err
	}
	return strconv.AppendUint(nil, index.Index, 10), nil
}

// verify checks that the files of the log contain body at the index in answer.
func (t *tesseraLog) verify(ctx context.Context, answer, body []byte) error {
	size, err := t.reader.IntegratedSize(ctx)
	if err != nil {
		return fmt.Errorf("reading the size: %w", err)
	}
	return VerifyTessera(ctx, t.config.Dir, size, answer, body)
}

// VerifyTessera checks that the log in dir contains the given body at the index in answer. size is
// the size of the log.
func VerifyTessera(ctx context.Context, dir string, size uint64, answer, body []byte) error {
	index, err := strconv.ParseUint(string(answer), 10, 64)
	if err != nil {
		return fmt.Errorf("parsing the index in the answer: %w", err)
	}
	bundle, err := client.GetEntryBundle(ctx, client.FileFetcher{Root: dir}.ReadEntryBundle, index/layout.EntryBundleWidth, size)
	if err != nil {
		return fmt.Errorf("reading entry %d: %w", index, err)
	}
	if i := index % layout.EntryBundleWidth; i >= uint64(len(bundle.Entries)) || !bytes.Equal(bundle.Entries[i], body) {
		return fmt.Errorf("entry %d differs from the added one", index)
	}
	return nil
}

// MeasureTessera measures a Tessera log in this process.
func MeasureTessera(ctx context.Context, config Config) (Measurement, error) {
	t, err := openTessera(ctx, config)
	if err != nil {
		return Measurement{}, err
	}
	m, err := config.run(ctx, appended{add: t.add, verify: t.verify})
	return m, errors.Join(err, t.close(ctx))
}

// ServeTessera serves a log with a bare net/http handler, as Tessera's own examples do. The handler
// adds the request body to the log, waits for its index, and returns the index. ServeTessera
// returns when ctx is done.
func ServeTessera(ctx context.Context, config Config, out io.Writer) error {
	t, err := openTessera(ctx, config)
	if err != nil {
		return err
	}
	handler := http.NewServeMux()
	handler.HandleFunc("POST /add", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		index, err := t.add(r.Context(), body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(index) // fails only if the client has disconnected
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Fprintf(out, "server http://%s\n", listener.Addr())
	select {
	case err := <-ended:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	return errors.Join(server.Close(), t.close(context.WithoutCancel(ctx)))
}
