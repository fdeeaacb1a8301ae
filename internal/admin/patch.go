package admin

import (
	"context"
	"net/http"
	"time"
)

// PatchRequest asks that Fargate pods leave their machines, for patched ones.
type PatchRequest struct {
	// Account and Region are where clusters of a name take precedence over others of it.
	Account string `json:"account,omitempty"`
	Region  string `json:"region,omitempty"`
	Cluster string `json:"cluster"`           // its name or ARN
	Profile string `json:"profile,omitempty"` // whose pods are meant; empty for those of all profiles
	// Deadline is how long pods may stay that cannot be evicted.
	Deadline time.Duration `json:"deadline"`
}

// Patched is the answer: the pods leave from now on, zone by zone.
type Patched struct {
	Cluster string    `json:"cluster"`
	Pods    int       `json:"pods"`
	Until   time.Time `json:"until"` // when those are deleted that could not be evicted
}

// PatchFargate asks that Fargate pods leave their machines. The error of a cluster or profile that is not there is a
// *[Refused].
func (c *Client) PatchFargate(ctx context.Context, q PatchRequest) (p Patched, err error) {
	return p, c.callJSON(ctx, http.MethodPost, "/fargate/patches", q, &p)
}
