package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// Confirm prints a warning and asks the user to type the name of the ledger. why is the text of
// the warning. done is a past participle such as "erased", for the message "nothing was erased".
// Without a terminal, Confirm returns an error that names --yes.
func (c *Console) Confirm(ctx context.Context, name, why, done string) error {
	if file, ok := c.In.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		return Exitf(ExitUsage, "%s; pass --yes to confirm", why)
	}
	fmt.Fprintf(c.Err, "Warning: %s. Type %q to confirm: ", why, name)
	typed := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(c.In).ReadString('\n') // if reading fails, line is not the name
		typed <- strings.TrimSpace(line)
	}()
	select {
	case line := <-typed:
		if line == name {
			return nil
		}
		return Exitf(ExitFailed, "the typed name does not match; nothing was %s", done)
	case <-ctx.Done():
		fmt.Fprintln(c.Err)
		return Exitf(ExitFailed, "interrupted; nothing was %s", done)
	}
}
