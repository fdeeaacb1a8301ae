package daemon

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/doctor"
	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/kubernetes"
)

// Doctor examines this host for a daemon in dir, and reports whether clusters will work.
func Doctor(ctx context.Context, w io.Writer, dir datadir.Dir, listen, bundles string) (healthy bool, err error) {
	h := doctor.Host{Dir: dir, Listen: DefaultListen, Bundles: bundles, Version: kubernetes.Default, Ports: map[string]int{}}
	s, err := dir.ReadSettings()
	switch {
	case err == nil:
		h.Listen = s.Listen
		h.Ports["API servers' webhooks"] = s.WebhookPort
		if port, err := etcd.Port(dir.Etcd()); err == nil {
			h.Ports["etcd"] = port
		}
	case !errors.Is(err, fs.ErrNotExist):
		h.Settings = err
	}
	if listen != "" {
		h.Listen = listen
	}
	return doctor.Print(w, doctor.Examine(ctx, h))
}
