// Holdfast in the loop of OpenCode. `holdfast disconnect opencode` removes this file.
import { spawn } from "node:child_process"
import os from "node:os"
import path from "node:path"

const COMMAND = /*COMMAND*/ []
const FAILS_CLOSED = /*CLOSED*/ false

const data = process.env.XDG_DATA_HOME || path.join(os.homedir(), ".local", "share")
const database = path.resolve(data, "opencode", process.env.OPENCODE_DB || "opencode.db")
const SECONDS = 120
// Words behind `opencode` that leave the terminal to plain text; all others draw on it.
const WORD = process.argv.slice(2).find((each) => !each.startsWith("-"))
const IS_PLAIN = ["run", "serve", "web", "acp"].includes(WORD)
const READING_MS = 20_000
// To a refused prompt OpenCode says "Unexpected server error" in the same place: ours comes after.
const AFTER_MS = 500

function ask(input) {
  return new Promise((resolve, reject) => {
    const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "pipe", "pipe"] })
    let out = ""
    let err = ""
    const limit = setTimeout(() => {
      child.kill("SIGKILL")
      reject(new Error(`no answer in ${SECONDS} seconds`))
    }, SECONDS * 1000)
    child.stdout.on("data", (some) => (out += some))
    child.stderr.on("data", (some) => (err += some))
    child.stdin.on("error", () => {})
    child.on("error", (error) => {
      clearTimeout(limit)
      reject(error)
    })
    child.on("close", (code) => {
      clearTimeout(limit)
      if (code === 2) return resolve({ verdict: "block", reason: err.trim() })
      if (code !== 0) return reject(new Error(err.trim() || `exit code ${code}`))
      try {
        resolve(out ? JSON.parse(out) : {})
      } catch (error) {
        reject(error)
      }
    })
    child.stdin.end(JSON.stringify(input))
  })
}

export const Holdfast = async ({ client, directory }) => {
  const parents = new Map()
  const turns = new Map()
  const top = (session) => {
    for (let steps = 0; parents.has(session) && steps < 20; steps++) session = parents.get(session)
    return session
  }
  // On the screen, or as text where there is none, and in the log. OpenCode itself says no more
  // than "Aborted" or "Unexpected server error". Nobody waits for it.
  const tell = (message, variant = "warning", wait = 0) => {
    const toast = { title: "Holdfast", message, variant, duration: READING_MS }
    const level = variant === "error" ? "error" : "warn"
    if (IS_PLAIN) process.stderr.write(`\n${message}\n`)
    const told = [
      () => client.tui.showToast({ body: toast }),
      () => client.app.log({ body: { service: "holdfast", level, message } }),
    ]
    const say = () => told.forEach((each) => Promise.resolve().then(each).catch(() => {}))
    wait ? setTimeout(say, wait) : say()
  }
  const decide = async (event, input, output) => {
    const session = top(input.sessionID)
    let answer = {}
    try {
      answer = await ask({ event, input, output, directory, database, session, turn: turns.get(session) })
    } catch (error) {
      const why = `Holdfast: the hook failed: ${error.message}`
      if (!FAILS_CLOSED) return tell(why)
      if (event === "chat.message") tell(why, "error", AFTER_MS)
      throw new Error(why)
    }
    if (answer.notice) tell(answer.notice)
    if (answer.verdict && event === "chat.message") tell(answer.reason, "error", AFTER_MS)
    else if (answer.verdict === "stop") tell(answer.reason, "error") // a refusal stands by its tool
    if (answer.verdict === "stop") {
      // The run ends first: a tool that is only refused is tried again.
      await client.session.abort({ path: { id: session } }).catch(() => {})
    }
    if (answer.verdict) throw new Error(answer.reason)
  }
  return {
    event: async ({ event }) => {
      const info = event?.properties?.info
      if (event?.type === "session.created" && info?.parentID) parents.set(info.id, info.parentID)
    },
    "chat.message": async (input, output) => {
      const session = top(input.sessionID)
      if (session === input.sessionID) turns.set(session, output?.message?.id)
      await decide("chat.message", input, { message: { id: output?.message?.id } })
    },
    "tool.execute.before": async (input, output) => {
      await decide("tool.execute.before", input, { args: output?.args })
    },
  }
}
