package redistest

import "testing"

// Behaviour is what holds on every kind of Redis: Test gets the URL of an empty one and
// its kind, single, sentinel or cluster.
type Behaviour struct {
	Name string
	Test func(t *testing.T, url, kind string)
}

// OnEachKind tests behaviours on one server, on a master that sentinels watch and on a
// cluster, the kinds in parallel. The latter two are started once for all of them, so a
// behaviour leaves every server running.
func OnEachKind(t *testing.T, behaviours ...Behaviour) {
	t.Helper()
	each := func(t *testing.T, kind string, empty func(t *testing.T) string) {
		t.Helper()
		for _, behaviour := range behaviours {
			t.Run(behaviour.Name, func(t *testing.T) { behaviour.Test(t, empty(t), kind) })
		}
	}
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		each(t, "single", func(t *testing.T) string { t.Helper(); return New(t) })
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		pair := Sentinels(t)
		each(t, "sentinel", func(t *testing.T) string { t.Helper(); flush(t, pair.Master); return pair.URL })
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := Cluster(t)
		each(t, "cluster", func(t *testing.T) string { t.Helper(); flush(t, cluster.Nodes...); return cluster.URL })
	})
}

// flush empties masters.
func flush(t *testing.T, masters ...*Server) {
	t.Helper()
	for _, master := range masters {
		if err := master.client().FlushAll(t.Context()).Err(); err != nil {
			t.Fatalf("redistest: flush: %v", err)
		}
	}
}
