package e2e_test

import "testing"

// TestSharedSystem runs the tests that only change their own workspaces. They share a system
// with the default settings, because its start takes longer than most of them.
func TestSharedSystem(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	for name, test := range map[string]func(*testing.T, *system){
		"Analytics":                testAnalytics,
		"ConversionBatches":        testConversionBatches,
		"ConversionReads":          testConversionReads,
		"AttributionAudit":         testAttributionAudit,
		"Fraud":                    testFraud,
		"JSON":                     testJSON,
		"Queries":                  testQueries,
		"Responses":                testResponses,
		"Filters":                  testFilters,
		"ProgramCurrency":          testProgramCurrency,
		"IsolationAllRoutes":       testIsolationAllRoutes,
		"IsolationPartners":        testIsolationPartners,
		"Isolation":                testIsolation,
		"Links":                    testLinks,
		"LinksLimitPerParticipant": testLinksLimitPerParticipant,
		"NotificationLogShowsAccountMailInTestModeOnly": testNotificationLogShowsAccountMailInTestModeOnly,
		"NotificationStreamSendsWhatTheFeedContains":    testNotificationStreamSendsWhatTheFeedContains,
		"NotificationStreamOfPartner":                   testNotificationStreamOfPartner,
		"NotificationStreamContinuesAfterLastEvent":     testNotificationStreamContinuesAfterLastEvent,
		"Notifications":                                 testNotifications,
		"NotificationsReadAndDismiss":                   testNotificationsReadAndDismiss,
		"NotificationsPreferences":                      testNotificationsPreferences,
		"NotificationsAnnouncement":                     testNotificationsAnnouncement,
		"Unsubscribe":                                   testUnsubscribe,
		"ParticipantList":                               testParticipantList,
		"ParticipantUpdate":                             testParticipantUpdate,
		"ParticipantsBulkActions":                       testParticipantsBulkActions,
		"ParticipantsInvitations":                       testParticipantsInvitations,
		"Payouts":                                       testPayouts,
		"PayoutsAreReducedWithTheirCommissions":         testPayoutsAreReducedWithTheirCommissions,
		"PromoCodes":                                    testPromoCodes,
		"PromoCodeRedemptionLimitHoldsUnderConcurrency": testPromoCodeRedemptionLimitHoldsUnderConcurrency,
		"ReattributionCanBeUndone":                      testReattributionCanBeUndone,
		"Refunds":                                       testRefunds,
		"ReviewOfCommissions":                           testReviewOfCommissions,
		"BuyerErasure":                                  testBuyerErasure,
		"BuyerErasureRequests":                          testBuyerErasureRequests,
		"CommissionStats":                               testCommissionStats,
		"CommissionExport":                              testCommissionExport,
		"Routes":                                        testRoutes,
		"ViewerSeesMaskedAddresses":                     testViewerSeesMaskedAddresses,
		"CommissionRules":                               testCommissionRules,
		"Groups":                                        testGroups,
		"RatesMostSpecificWins":                         testRatesMostSpecificWins,
		"CommissionRulesLimits":                         testCommissionRulesLimits,
		"ProgramStatus":                                 testProgramStatus,
		"Deliveries":                                    testDeliveries,
		"WebhookLimit":                                  testWebhookLimit,
		"EventTypes":                                    testEventTypes,
		"Members":                                       testMembers,
		"MembersLastOwnerStaysUnderConcurrency":         testMembersLastOwnerStaysUnderConcurrency,
		"AuditLog":                                      testAuditLog,
		"ErasedParticipantCannotChangeStatus":           testErasedParticipantCannotChangeStatus,
		"IDFilters":                                     testIDFilters,
		"Redirect":                                      testRedirect,
		"ProviderWebhookDoesNotExistWithoutSecret":      testProviderWebhookDoesNotExistWithoutSecret,
		"MainUseCaseOverGRPC":                           testMainUseCaseOverGRPC,
		"FieldErrorsContainPathInBody":                  testFieldErrorsContainPathInBody,
		"NotificationStreamTicketOpensOnlyItsStream":    testNotificationStreamTicketOpensOnlyItsStream,
		"ClickMatchesOpenAPI":                           testClickMatchesOpenAPI,
		"ErasedParticipantRejectsAllWrites":             testErasedParticipantRejectsAllWrites,
		"Roles":                                         testRoles,
		"TestData":                                      testTestData,
		"TestDataOnceAtATime":                           testTestDataOnceAtATime,
		"TestDataOfManyRecords":                         testTestDataOfManyRecords,
		"Exports":                                       testExports,
		"ExportsEncoding":                               testExportsEncoding,
		"ExportsOverGRPC":                               testExportsOverGRPC,
		"StripeConnectRefusals":                         testStripeConnectRefusals,
		"WebhookURLs":                                   testWebhookURLs,
		"WorkspaceSettings":                             testWorkspaceSettings,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, sys)
		})
	}
}
