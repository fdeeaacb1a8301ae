package fargate

import "github.com/coracle-eks/coracle/internal/crash"

// The instructions at which a test kills the daemon, in their order.
var (
	crashEntry     = crash.At("fargate/access-entry-created")
	crashMapped    = crash.At("fargate/role-mapped")
	crashWebhook   = crash.At("fargate/webhook-applied")
	crashAdmitted  = crash.At("fargate/capacity-recorded")
	crashLogging   = crash.At("fargate/logging-reported")
	crashNamed     = crash.At("fargate/pod-annotated")
	crashChosen    = crash.At("fargate/subnet-chosen")
	crashLaunched  = crash.At("fargate/machine-launched")
	crashRecorded  = crash.At("fargate/machine-recorded")
	crashBound     = crash.At("fargate/pod-bound")
	crashBinding   = crash.At("fargate/binding-recorded")
	crashRetired   = crash.At("fargate/machine-retired")
	crashReset     = crash.At("fargate/capacity-renewed")
	crashAnnounced = crash.At("fargate/termination-announced")
	crashPatch     = crash.At("fargate/eviction-refused")
	crashEnding    = crash.At("fargate/ending-recorded")
	crashFailed    = crash.At("fargate/pod-failed")
	crashNode      = crash.At("fargate/node-deleted")
	crashEnded     = crash.At("fargate/machine-terminated")
	crashGone      = crash.At("fargate/pod-row-deleted")
	crashRevoked   = crash.At("fargate/access-revoked")
)
