package imds

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// Main runs the program "imds token|API_PATH" of EKS AMIs.
func Main(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "usage: imds token|API_PATH")
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := &Client{token: os.Getenv("IMDS_TOKEN")}
	if args[0] == "token" {
		c.token = ""
		token, err := c.Token(ctx)
		if err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		fmt.Fprintln(stdout, token)
		return 0
	}
	body, err := c.Get(ctx, args[0])
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintf(stdout, "%s\n", body)
	return 0
}
