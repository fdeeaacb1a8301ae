// Package kmsplugin serves the KMS plugins of clusters: through them an API server has the keys of Secrets in etcd
// encrypted and decrypted by AWS KMS, with the key that the cluster's encryptionConfig names.
//
// Each cluster with such a key has a plugin at a unix socket of its own, in the protocol KMS v2 of Kubernetes. The
// plugin calls KMS through the AWS SDK as EKS, under its service-linked role, which a grant lets use the key: where KMS
// refuses, because the key is disabled or the grant is revoked, the API server cannot read Secrets any more.
//
// The plugins are servers in the daemon, and no processes of their own: KMS itself is in the daemon, so that a process
// that outlived it could do nothing without it. API servers connect again by themselves; until then they use the keys
// that they have decrypted.
//
// https://kubernetes.io/docs/tasks/administer-cluster/kms-provider/
package kmsplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"google.golang.org/grpc"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/coracle-eks/coracle/internal/record"
)

// KMS is the part of the SDK's client that plugins use.
type KMS interface {
	Encrypt(context.Context, *kms.EncryptInput, ...func(*kms.Options)) (*kms.EncryptOutput, error)
	Decrypt(context.Context, *kms.DecryptInput, ...func(*kms.Options)) (*kms.DecryptOutput, error)
	RetireGrant(context.Context, *kms.RetireGrantInput, ...func(*kms.Options)) (*kms.RetireGrantOutput, error)
}

// Options configures Plugins.
type Options struct {
	// Dir is the directory of the sockets. Its path is short: that of a socket has 107 bytes at most.
	Dir string
	// KMS is a client with the permissions of AWSServiceRoleForAmazonEKS in that account.
	KMS func(account, region string) KMS
	Log *slog.Logger
}

// Plugins serves the plugins of this daemon's clusters. It is safe for concurrent use.
type Plugins struct {
	o Options

	mu      sync.Mutex
	running map[string]*plugin // by cluster ID
	changed []func(clusterID string)
}

// New returns Plugins; nothing is served before Ensure is called.
func New(o Options) *Plugins {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Plugins{o: o, running: map[string]*plugin{}}
}

// Subscribe calls changed, which does not block, when the plugin of a cluster has become healthy or unhealthy.
func (p *Plugins) Subscribe(changed func(clusterID string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = append(p.changed, changed)
}

func (p *Plugins) notify(clusterID string) {
	p.mu.Lock()
	all := p.changed
	p.mu.Unlock()
	for _, f := range all {
		f(clusterID)
	}
}

// socket returns the path of a cluster's socket.
func (p *Plugins) socket(clusterID string) string {
	return filepath.Join(p.o.Dir, clusterID[:min(16, len(clusterID))]+".sock")
}

// Ensure serves the plugin of a cluster that has a key, unless it is served already, and returns its endpoint, which
// stays the same.
func (p *Plugins) Ensure(cluster record.Cluster) (endpoint string, err error) {
	path := p.socket(cluster.ID)
	endpoint = "unix://" + path
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[cluster.ID] != nil {
		return endpoint, nil
	}
	if err := os.MkdirAll(p.o.Dir, 0o700); err != nil {
		return "", fmt.Errorf("directory of the KMS plugins: %w", err)
	}
	// The directory is locked by this daemon: the socket is that of an earlier one.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("socket of the KMS plugin of cluster %s: %w", cluster.Name, err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return "", fmt.Errorf("serve the KMS plugin of cluster %s: %w", cluster.Name, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return "", fmt.Errorf("socket of the KMS plugin of cluster %s: %w", cluster.Name, err)
	}
	g := &plugin{
		cluster: cluster, kms: p.o.KMS(cluster.Account, cluster.Region), log: p.o.Log,
		flipped: func() { p.notify(cluster.ID) },
		server: grpc.NewServer(grpc.ConnectionTimeout(5*time.Second), grpc.MaxRecvMsgSize(maxMessage),
			grpc.MaxConcurrentStreams(maxStreams), grpc.UnaryInterceptor(recoverPanic)),
	}
	kmsapi.RegisterKeyManagementServiceServer(g.server, g)
	g.serving.Go(func() {
		if err := g.server.Serve(l); err != nil {
			p.o.Log.Error("KMS plugin ended", "cluster", cluster.Name, "error", err)
		}
	})
	p.running[cluster.ID] = g
	return endpoint, nil
}

// Health returns why the plugin of a cluster cannot use its key, as of when the API server asked last; nil if it can.
func (p *Plugins) Health(clusterID string) error {
	p.mu.Lock()
	g := p.running[clusterID]
	p.mu.Unlock()
	if g == nil {
		return nil
	}
	return g.health()
}

// Remove ends the plugin of a cluster that is deleted, and gives back the grant on its key.
func (p *Plugins) Remove(ctx context.Context, cluster record.Cluster) error {
	if cluster.EncryptionKeyARN != "" {
		err := retireGrant(ctx, p.o.KMS(cluster.Account, cluster.Region), cluster)
		if err != nil {
			return fmt.Errorf("retire the grant of cluster %s on key %s: %w", cluster.Name, cluster.EncryptionKeyARN, err)
		}
	}
	p.mu.Lock()
	g := p.running[cluster.ID]
	delete(p.running, cluster.ID)
	p.mu.Unlock()
	if g != nil {
		g.stop()
	}
	return nil
}

// Close ends all plugins. The API servers wait for those of the next daemon.
func (p *Plugins) Close() {
	p.mu.Lock()
	all := p.running
	p.running = map[string]*plugin{}
	p.mu.Unlock()
	for _, g := range all {
		g.stop()
	}
}
