package redistest

import "testing"

// Behaviour is a test that runs on every kind of Redis deployment. Test receives the URL
// of an empty deployment and its kind: single, sentinel or cluster.
type Behaviour struct {
	Name string
	Test func(t *testing.T, url, kind string)
}

// OnEachKind runs each test on a single server, on a master with sentinels and on a
// cluster. The three kinds run in parallel. All tests of one call share a cluster, and a
// master with its sentinels, so a test must not stop a server.
func OnEachKind(t *testing.T, behaviours ...Behaviour) {
	t.Helper()
	runAll := func(t *testing.T, kind string, emptyDeployment func(t *testing.T) (url string)) {
		t.Helper()
		for _, behaviour := range behaviours {
			t.Run(behaviour.Name, func(t *testing.T) { behaviour.Test(t, emptyDeployment(t), kind) })
		}
	}
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		runAll(t, "single", func(t *testing.T) string { t.Helper(); return New(t) })
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		pair := Sentinels(t)
		runAll(t, "sentinel", func(t *testing.T) string { t.Helper(); flush(t, pair.Master); return pair.URL })
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := Cluster(t)
		runAll(t, "cluster", func(t *testing.T) string { t.Helper(); flush(t, cluster.Nodes...); return cluster.URL })
	})
}

// flush deletes all keys of the masters.
func flush(t *testing.T, masters ...*Server) {
	t.Helper()
	for _, master := range masters {
		if err := master.client().FlushAll(t.Context()).Err(); err != nil {
			t.Fatalf("redistest: flush: %v", err)
		}
	}
}
