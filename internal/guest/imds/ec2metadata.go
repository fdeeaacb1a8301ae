package imds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// EC2Metadata runs the program "ec2-metadata" of Amazon Linux: "ec2-metadata --instance-id" prints
// "instance-id: i-…".
func EC2Metadata(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := &Client{}
	quiet := slices.Contains(args, "--quiet")
	asked := 0
	for _, o := range ec2Metadata {
		if !slices.Contains(args, o.short) && !slices.Contains(args, "--"+o.name) && !slices.Contains(args, "--all") {
			continue
		}
		asked++
		path := "latest/meta-data/" + o.path
		if o.name == "user-data" {
			path = "latest/user-data"
		}
		body, err := c.Get(ctx, path)
		if errors.Is(err, ErrNotFound) {
			body, err = []byte("not available"), nil
		}
		if err != nil {
			fmt.Fprintln(stderr, "[ERROR]", err)
			return 1
		}
		if quiet {
			fmt.Fprintf(stdout, "%s\n", body)
		} else {
			fmt.Fprintf(stdout, "%s: %s\n", o.label, body)
		}
	}
	if asked == 0 {
		fmt.Fprintln(stderr, "Usage: ec2-metadata <option>\nOptions:")
		for _, o := range ec2Metadata {
			fmt.Fprintf(stderr, "  --%s%s\n", o.name, strings.TrimSuffix("/"+o.short, "/"))
		}
		return 1
	}
	return 0
}

var ec2Metadata = []struct{ name, short, label, path string }{
	{"ami-id", "-a", "ami-id", "ami-id"}, {"ami-launch-index", "-l", "ami-launch-index", "ami-launch-index"},
	{"instance-id", "-i", "instance-id", "instance-id"},
	{"instance-type", "-t", "instance-type", "instance-type"}, {"local-hostname", "-h", "local-hostname",
		"local-hostname"}, {"local-ipv4", "-o", "local-ipv4", "local-ipv4"},
	{"availability-zone", "-z", "placement", "placement/availability-zone"},
	{"region", "-R", "region", "placement/region"}, {"public-hostname", "-p", "public-hostname", "public-hostname"},
	{"public-ipv4", "-v", "public-ipv4", "public-ipv4"}, {"security-groups", "-s", "security-groups",
		"security-groups"}, {"reservation-id", "-r", "reservation-id", "reservation-id"},
	{"user-data", "-d", "user-data", ""},
}
