package fargate

import (
	"context"
	"fmt"
	"io"
	"os"
)

// Main runs the program "fargate" and returns the exit status: "fargate init" configures the machine, "fargate
// credentials" is the credential process of the AWS SDKs, and the CNI plugin is called without arguments.
func Main(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 && os.Getenv("CNI_COMMAND") != "" {
		p := plugin{env: os.Getenv, namespace: machineNamespace}
		return p.run(os.Stdin, stdout)
	}
	var err error
	switch {
	case len(args) == 1 && args[0] == "init":
		err = Setup{Stderr: stderr}.Run()
	case len(args) == 1 && args[0] == "credentials":
		err = credentialProcess{}.print(context.Background(), stdout)
	default:
		fmt.Fprintln(stderr, "usage: coracle-node fargate init|credentials")
		return 2
	}
	if err != nil {
		fmt.Fprintln(stderr, "fargate:", err)
		return 1
	}
	return 0
}
