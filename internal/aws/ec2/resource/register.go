package resource

import "github.com/coracle-eks/coracle/internal/aws/wire"

// Register serves operations of EC2. A dry run on a resource that does not exist says so, as on AWS.
func Register(mux *wire.Mux, handlers ...wire.Handler) {
	for _, h := range handlers {
		mux.Register(wire.EC2, h.CheckingDryRun())
	}
}
