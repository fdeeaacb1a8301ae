package machine

import (
	"fmt"
	"io"
	"strings"
)

// Command is a command for Exec to run.
type Command struct {
	Args []string // at least the program
	// TTY gives it a terminal of the machine. Where Stdin is a terminal, too, that passes every key on and tells of
	// changes of its size.
	TTY            bool
	Stdin          io.Reader
	Stdout, Stderr io.Writer // with a TTY, everything goes to Stdout
}

// NotRunningError reports that there is nothing to run a command in.
type NotRunningError struct {
	InstanceID string
	Running    []string // instances whose machines run
}

func (e *NotRunningError) Error() string {
	if len(e.Running) == 0 {
		return fmt.Sprintf("the machine of instance %s does not run; none does", e.InstanceID)
	}
	return fmt.Sprintf("the machine of instance %s does not run; those of %s do",
		e.InstanceID, strings.Join(e.Running, ", "))
}
