package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// Confirm prints why as a warning and asks the user to confirm by typing name, the name of the
// ledger. done is a past participle such as "erased", for messages like "nothing was erased". If
// the input is not a terminal, Confirm returns an error that asks for --yes.
func (c *Console) Confirm(ctx context.Context, name, why, done string) error {
	if file, ok := c.In.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		return ExitErrorf(ExitUsage, "%s; pass --yes to confirm", why)
	}
	fmt.Fprintf(c.Err, "Warning: %s. Type %q to confirm: ", why, name)
	typed := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(c.In).ReadString('\n') // if reading fails, line does not match name
		typed <- strings.TrimSpace(line)
	}()
	select {
	case line := <-typed:
		if line == name {
			return nil
		}
		return ExitErrorf(ExitFailed, "the typed name does not match; nothing was %s", done)
	case <-ctx.Done():
		fmt.Fprintln(c.Err)
		return ExitErrorf(ExitFailed, "interrupted; nothing was %s", done)
	}
}
