package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

var sandbox = regexp.MustCompile(`(?m)^\s*sandbox(?:_image)?\s*=\s*["']([^"']+)["']`)

// PullSandboxImage runs the program pull-sandbox-image.sh, the unit sandbox-image.service: the kubelet's first pod must
// not wait for, or fail by, an image that the kubelet itself does not pull.
func PullSandboxImage(stdout, stderr io.Writer) int {
	const file = "/etc/containerd/config.toml"
	config, err := os.ReadFile(file)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	m := sandbox.FindSubmatch(config)
	if m == nil {
		fmt.Fprintf(stderr, "Skipping ... missing sandbox image in %s\n", file)
		return 0
	}
	image := string(m[1])
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "ctr", "--namespace", "k8s.io", "images", "ls", "-q",
		"name=="+image).Output(); err == nil && strings.TrimSpace(string(out)) == image {
		fmt.Fprintf(stderr, "Skipping ... sandbox image '%s' is already present\n", image)
		return 0
	}
	args := []string{"--namespace", "k8s.io", "images", "pull", "--hosts-dir", "/etc/containerd/certs.d"}
	for attempt := 0; ; attempt++ {
		out, err := exec.CommandContext(ctx, "ctr", append(args[:len(args):len(args)], image)...).CombinedOutput()
		if err == nil {
			fmt.Fprintf(stdout, "Image is up to date for %s\n", image)
			return 0
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n") // a progress bar, and why it stopped
		fmt.Fprintf(stderr, "pull %s: %v: %s\n", image, err, lines[len(lines)-1])
		if attempt == 3 {
			return 1
		}
		// The registry of the host needs no password of machines; another may.
		if password, err := ecrPassword(ctx, image); err == nil {
			args = append(args[:5:5], "--user", "AWS:"+password)
		} else {
			fmt.Fprintf(stderr,
				"Unable to retrieve the ECR password. Image pull may not be properly authenticated. %v\n", err)
		}
		select {
		case <-ctx.Done():
			return 1
		case <-time.After(time.Duration(1<<attempt) * time.Second):
		}
	}
}

// ecrPassword asks the kubelet's credential provider.
func ecrPassword(ctx context.Context, image string) (string, error) {
	const provider = "/etc/eks/image-credential-provider/ecr-credential-provider"
	request, err := json.Marshal(map[string]string{"apiVersion": "credentialprovider.kubelet.k8s.io/v1",
		"kind": "CredentialProviderRequest", "image": image})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, provider, "get-credentials")
	cmd.Stdin = bytes.NewReader(request)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	var answer struct {
		Auth map[string]struct{ Password string }
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return "", err
	}
	for _, a := range answer.Auth {
		return a.Password, nil
	}
	return "", fmt.Errorf("%s has no credentials for %s", provider, image)
}
