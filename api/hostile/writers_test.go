package hostile_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// writersEnv is the environment variable that makes the test binary run only the writers. Its value
// is the server's address.
const writersEnv = "COLOPHON_HOSTILE_WRITERS"

// writers is a process whose goroutines each post one record after another. It is separate from the
// attacking process, which uses all the processor time it can get. Otherwise, the time that the
// writers spend waiting for a CPU core would make the server look slow.
type writers struct {
	command *exec.Cmd
	ask     io.WriteCloser
	answers *bufio.Reader
}

const writersAtOnce = 8

// startWriters starts a process that runs the writers, which are paused at first.
func startWriters(t *testing.T, address string) *writers {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	w := &writers{command: exec.Command(program)}
	w.command.Env = append(os.Environ(), writersEnv+"="+address)
	w.command.Stderr = os.Stderr
	w.ask, err = w.command.StdinPipe()
	require.NoError(t, err)
	answers, err := w.command.StdoutPipe()
	require.NoError(t, err)
	w.answers = bufio.NewReader(answers)
	require.NoError(t, w.command.Start())
	t.Cleanup(func() { // if the test has failed, the process is still running
		_ = w.ask.Close()
		_ = w.command.Wait()
	})
	return w
}

// written resumes the writers if goOn is true and pauses them otherwise. It returns the number of
// records acknowledged so far.
func (w *writers) written(t *testing.T, goOn bool) int64 {
	t.Helper()
	_, err := fmt.Fprintln(w.ask, goOn)
	require.NoError(t, err)
	line, err := w.answers.ReadString('\n')
	require.NoError(t, err)
	count, refused, _ := strings.Cut(strings.TrimSpace(line), " ")
	if refused != "" {
		t.Logf("a write was refused: %s", refused)
	}
	n, err := strconv.ParseInt(count, 10, 64)
	require.NoError(t, err)
	return n
}

// writeOnly runs the writers, which are paused at first. For each line of commands, it resumes or
// pauses them and writes one line to out.
func writeOnly(address string, commands io.Reader, out io.Writer) {
	var written atomic.Int64
	var refused atomic.Value
	var pause sync.RWMutex // locked while the writers are paused
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writersAtOnce}}
	paused := true
	pause.Lock()
	for range writersAtOnce {
		go func() {
			for {
				pause.RLock()
				if err := writeOne(client, address, written.Load()); err != nil {
					refused.Store(err.Error())
				} else {
					written.Add(1)
				}
				pause.RUnlock()
			}
		}()
	}
	for lines := bufio.NewScanner(commands); lines.Scan(); {
		switch goOn := lines.Text() == "true"; {
		case goOn && paused:
			pause.Unlock()
			paused = false
		case !goOn && !paused:
			pause.Lock() // returns after all current requests have been answered
			paused = true
		}
		why, _ := refused.Swap("").(string)
		fmt.Fprintln(out, written.Load(), strings.ReplaceAll(why, "\n", " "))
	}
}

func writeOne(client *http.Client, address string, n int64) error {
	body := fmt.Sprintf(`{"model":"m","temperature":0,"max_tokens":9,"payload":{"n":%d},"output":"an answer"}`, n)
	response, err := client.Post("http://"+address+"/v1/ledgers/default/ipc-records", "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusCreated {
		return fmt.Errorf("%d: %s", response.StatusCode, text)
	}
	return nil
}

// yieldCores lowers this process to the lowest priority, so that it gets only the processor time
// that the server and the writers do not use. Processes that it starts later inherit this priority.
func yieldCores(t *testing.T) {
	t.Helper()
	threads, err := filepath.Glob("/proc/self/task/*")
	require.NoError(t, err)
	for _, thread := range threads {
		id, err := strconv.Atoi(filepath.Base(thread))
		require.NoError(t, err)
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, 19) // the thread might have ended
	}
}
