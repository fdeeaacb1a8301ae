package fargate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/coracle-eks/coracle/internal/kube/client"
)

// applyWebhook puts the configuration of the webhook into the cluster that sends the pods of profiles to Fargate, as
// EKS does: with kubectl, as eks:cluster-bootstrap. It does so for each new profile, and when the daemon's webhook has
// another address. In between it leaves alone what users do to it.
func (p *profilePass) applyWebhook(ctx context.Context) error {
	if p.server == nil {
		return nil
	}
	o := p.c.o.Webhook(p.cluster)
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	fingerprint := hex.EncodeToString(sum[:8])
	if p.state.Webhook == fingerprint {
		return nil
	}
	plane, err := p.c.planes.Get(ctx, p.cluster.Key())
	if err != nil {
		return err
	}
	config, err := p.c.o.Config(ctx, p.cluster, bootstrapUser, mastersGroup)
	if err != nil {
		return err
	}
	clients, err := client.New(config, p.cluster.Name, "kubectl/v"+plane.Value.Version+".0 (linux/amd64) kubernetes")
	if err != nil {
		return err
	}
	defer clients.Close()
	if err := client.Apply(ctx, clients.Objects, o); err != nil {
		return fmt.Errorf("apply webhook configuration %s: %w", o.GetName(), err)
	}
	crashWebhook.Here()
	p.state.Webhook = fingerprint
	return nil
}
