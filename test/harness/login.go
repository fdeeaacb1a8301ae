package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// login keeps a token fresh that a kubeconfig names.
type login struct {
	exec *api.ExecConfig
	file string

	mu   sync.Mutex
	made time.Time
}

// Login calls [Daemon.Kubeconfig] and [Daemon.KeepToken].
func (d *Daemon) Login(cluster string) string {
	d.t.Helper()
	path := d.Kubeconfig(cluster)
	d.KeepToken(path)
	return path
}

// KeepToken makes one token of a kubeconfig's `aws eks get-token` serve many calls: kubectl has it made anew for each,
// which takes longer than the call itself.
func (d *Daemon) KeepToken(kubeconfig string) {
	d.t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		d.t.Fatal(err)
	}
	user := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo]
	l := &login{exec: user.Exec, file: kubeconfig + ".token"}
	user.Exec, user.TokenFile = nil, l.file
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		d.t.Fatal(err)
	}
	d.logins.Store(kubeconfig, l)
}

// Token returns a token as `aws eks get-token` makes it, with variables such as "AWS_ACCESS_KEY_ID=..." in its
// environment. It reads JSON, as some versions of aws print nothing else.
func (d *Daemon) Token(cluster string, variables ...string) string {
	d.t.Helper()
	out := d.Run("", "env", append(variables, "aws", "eks", "get-token", "--cluster-name", cluster, "--output", "json")...)
	token, err := tokenOf([]byte(out))
	if err != nil {
		d.t.Fatal(err)
	}
	return token
}

// REST returns what a client in this process needs to call the API server of a kubeconfig of [Daemon.KeepToken], as its
// user. It is for tests that ask often: kubectl takes a process for each request.
func (d *Daemon) REST(ctx context.Context, kubeconfig string) (*rest.Config, error) {
	if err := d.refresh(ctx, kubeconfig); err != nil {
		return nil, err
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// refresh makes a new token for a kubeconfig of KeepToken. Tokens count for 14 minutes, and clients read the file every
// minute.
func (d *Daemon) refresh(ctx context.Context, kubeconfig string) error {
	found, ok := d.logins.Load(kubeconfig)
	if !ok {
		return nil
	}
	l := found.(*login)
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.made) < 5*time.Minute {
		return nil
	}
	made := time.Now()
	cmd := d.Command(ctx, "", l.exec.Command, l.exec.Args...)
	for _, e := range l.exec.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("make a token for %s: %w", kubeconfig, err)
	}
	token, err := tokenOf(out)
	if err != nil {
		return fmt.Errorf("make a token for %s: %w", kubeconfig, err)
	}
	if err := os.WriteFile(l.file, []byte(token), 0o600); err != nil {
		return err
	}
	l.made = made
	return nil
}

// tokenOf returns the token of an ExecCredential.
func tokenOf(credential []byte) (string, error) {
	var c struct{ Status struct{ Token string } }
	if err := json.Unmarshal(credential, &c); err != nil {
		return "", fmt.Errorf("%w: %s", err, credential)
	}
	return c.Status.Token, nil
}
