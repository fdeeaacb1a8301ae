package nodegroup

// workload starts what must not be disturbed, and who would notice.
func (c *cluster) workload() { c.Workload("workers") }

// answered fails the test for any request that failed.
func (c *cluster) answered() {
	c.t.Helper()
	failed, restarts := c.Refused()
	for _, line := range failed {
		c.t.Error(line)
	}
	if restarts != 0 {
		c.t.Errorf("the client was started %d times again", restarts)
	}
}
