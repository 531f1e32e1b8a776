"""The words of the generated projects. Nothing here is taken from anybody's text."""

_NOUNS = """
account adapter agent alarm archive array backup balance barrier batch binding block bridge broker bucket
buffer build bundle cache calendar canary carrier catalog channel checksum circuit client clock cluster
column commit compiler config connection container context cookie counter coupon cursor daemon dashboard
dataset deadline deploy device digest directory disk document domain driver editor element endpoint engine
entity envelope event exporter failover feature feed field filter firewall fixture flag folder font frame
gateway graph group handler handshake hash header heartbeat hook host identity image importer index inode
instance interval inventory invoice iterator journal kernel key label latency layer ledger lease library
limit listener locale lock log loop manifest map marker matrix memory merge message meter metric migration
mirror module monitor mutex namespace network node notice object offset operator order outbox owner package
packet page parser partition patch path payload peer permission pipeline plugin pointer policy pool port
prefix printer probe process profile project prompt protocol proxy quota query queue quorum rebate receipt
record refund region registry relay release replica report request resolver response retry role rollout
router rule runner sample schedule schema scope script secret section segment sensor server session setting
shard shell signal sink slot snapshot socket source spool stage state stream subject switch symbol table
task tenant terminal thread threshold ticket timer token topic trace transfer trigger tunnel update upload
user vault vector version volume voucher wallet watcher webhook widget window worker writer zone
"""

_VERBS = """
accepts adds allows balances blocks builds checks clears closes collects copies counts creates delays
deletes drains drops emits encodes expands fails fetches fills flushes follows forwards guards hides holds
joins keeps limits links loads locks maps marks measures merges moves names notifies opens orders parses
pauses polls prints publishes pulls pushes reads rebuilds receives refuses rejects releases reloads removes
renames repairs replaces replays reports resets resumes retries returns rotates saves scans seals selects
sends shows signs skips sorts splits starts stops stores swaps tags throttles tracks trims unlocks updates
validates verifies waits wakes warns writes
"""

_ADJECTIVES = """
active atomic broken clean cold common current damaged deep default delayed dirty distant early empty
expired external fast final first fixed foreign free fresh global hidden hot idle internal invalid large
last late local lost missing mutable nested new old open optional partial pending plain private public
random raw ready recent remote safe shared short silent simple slow small stable stale strict sudden
temporary thin unknown unsafe unused urgent valid visible warm weak whole wide
"""

NOUNS, VERBS, ADJECTIVES = (words.split() for words in (_NOUNS, _VERBS, _ADJECTIVES))
